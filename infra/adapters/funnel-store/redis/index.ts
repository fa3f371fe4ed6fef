export { openRedisFunnelStore } from './funnel-store.ts';
