package fuel

// SetPortion sets the number of units that are handed out at a time, until the function that it returns is called.
func SetPortion(units int64) (restore func()) {
	was := portion
	portion = units
	return func() { portion = was }
}
