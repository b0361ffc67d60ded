"""Every chart as a plotly figure, in one theme; and the script that draws it on pages and in documents."""
