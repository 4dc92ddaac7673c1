// Exists so that each precompiled header belongs to a separate target.
