"""`python -m appliance`: what the command `appliance` does."""

from appliance.start import main

if __name__ == "__main__":
    main()
