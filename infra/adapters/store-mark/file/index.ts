export { openFileStoreMark } from './store-mark.ts';
