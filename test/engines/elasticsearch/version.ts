export const ELASTICSEARCH_VERSION = '9.5.3';
