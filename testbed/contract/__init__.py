"""The cases that every binder of an engine or a broker passes."""
