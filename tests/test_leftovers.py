"""What a test has made goes when it ends."""

import gc
import weakref

from collector.config import CollectorConfig
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from tests.analyzer.reports.test_reading import BERLIN
from tests.leftovers import forget_applications


def test_an_application_goes_with_its_store() -> None:
    """FastAPI remembers functions of it, and by them all of it: a worker came to 2 GB of servers that had ended."""
    with Store.open(None) as store:
        config = ServerConfig(CollectorConfig(listen="127.0.0.1:0"), BERLIN, analyze_seconds=None)
        app = weakref.ref(create_server(config, store))
        kept = weakref.ref(store)
    del store
    forget_applications()
    gc.collect()
    assert (app(), kept()) == (None, None)
