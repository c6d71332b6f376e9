"""Small configurations of the public Model Zoo, run on the CPU backend and on the appliance."""
