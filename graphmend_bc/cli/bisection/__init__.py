"""`graphmend-bc bisect`: the smallest set of mends that makes a difference, found by trials."""
