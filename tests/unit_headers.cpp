// Only precompiled headers come from here.
