package upstreamsim

type staffState struct{}

func (*staffState) init() {}

func (s *Sim) staffRoutes() {}
