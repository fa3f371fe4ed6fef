export { type LinkedLiveTailOptions, openLinkedLiveTail } from './linked-live-tail.ts';
export { type InProcessLiveTailOptions, openInProcessLiveTail } from './live-tail.ts';
