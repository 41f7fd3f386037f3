package engine

// Indexed turns the engine's index of rules on or off, for all queries.
func Indexed(on bool) { indexed = on }
