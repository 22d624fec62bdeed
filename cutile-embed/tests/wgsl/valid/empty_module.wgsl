// Nothing but this line.
