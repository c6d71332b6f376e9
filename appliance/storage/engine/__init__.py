"""The database: opening, transactions, group commit, what its errors mean, copies of it."""
