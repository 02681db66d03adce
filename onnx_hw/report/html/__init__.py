"""Page of a build, and of a comparison."""
