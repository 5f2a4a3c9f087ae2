"""How a run learns: updates, evaluations and states that a killed run goes on from."""
