"""The order of the paths of designs."""

from starlette.routing import Route

from placet.server import create_app
from placet_design import Design


def test_frequent_routes_are_matched_first():
    paths = [route.path for route in create_app(Design()).routes if isinstance(route, Route)]
    hot = {"/api/v1/worlds/{world}/batches", "/api/v1/designs/{design_id}/actions", "/healthz"}
    assert hot <= set(paths[:7])
