"""`graphmend-bc explain`: what a program compiles, as stock compiles it and mended."""
