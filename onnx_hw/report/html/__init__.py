"""Page of a build, and page of a comparison of two builds."""
