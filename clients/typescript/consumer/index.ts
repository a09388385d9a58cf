export { ConsumerClient, type Answer, type Call, type ClientOptions, type Operation, type Schemas } from './client.js';
export { ProblemError, type Problem } from './problem.js';
