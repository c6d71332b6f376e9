"""How clients find and reach the appliance: one TLS port, and the file that names it."""
