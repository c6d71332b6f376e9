"""The open wafer-scale cluster appliance: every service behind the client's wire."""
