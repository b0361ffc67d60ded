"""Write the dashboards anew: `python -m dashboards.grafana`."""

from pathlib import Path

from dashboards.grafana.written import dashboard_files

if __name__ == "__main__":
    for name, text in dashboard_files():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")
        print(name)
