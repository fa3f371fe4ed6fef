export {
  type InProcessLiveTailOptions,
  type LinkedLiveTailOptions,
  openInProcessLiveTail,
  openLinkedLiveTail,
} from './live-tail.ts';
