package cache

const childEnv = "CACHE_TEST_CHILD"

func childMain() int { return 0 }
