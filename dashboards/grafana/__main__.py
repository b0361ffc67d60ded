"""Write the dashboards anew: `python -m dashboards.grafana`."""

from pathlib import Path

from dashboards.grafana.written import written

if __name__ == "__main__":
    for name, text in written():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")
        print(name)
