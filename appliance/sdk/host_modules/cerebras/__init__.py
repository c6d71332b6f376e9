"""The modules that programs of the SDK import, written for this appliance.

An installed SDK's other modules stay reachable under the same names.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
