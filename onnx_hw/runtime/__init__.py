"""Options, stages, progress, build folders, the artifact store and workers."""
