"""What the evaluator computes with: types, values, variables, and arithmetic on known numbers."""
