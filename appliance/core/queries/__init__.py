"""What lists can be asked for, and their lines: shared by csctl, REST and storage."""
