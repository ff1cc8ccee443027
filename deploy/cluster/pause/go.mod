module gangline.dev/deploy/cluster/pause

go 1.26.0
