"""What must hold, judged at the steps that could break it."""
