// Exists so that the precompiled LibTorch header belongs to a separate target.
