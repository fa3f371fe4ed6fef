export { openElasticsearchStoreMark } from './store-mark.ts';
