"""The fixtures of the integration tests, for checks on a machine with a GPU."""

import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True
_integration = pathlib.Path(__file__).resolve().parents[1] / "integration"
sys.path.insert(0, str(_integration))
_spec = importlib.util.spec_from_file_location("integration_conftest", _integration / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})
