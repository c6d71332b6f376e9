"""The pods that stand for hardware: CS-2 systems and input workers."""
