import type { ConnectorKind } from '../kind.ts';
import { createElasticsearchConnector } from './connector.ts';
import { description } from './description.ts';

export const elasticsearch: ConnectorKind = { description, create: createElasticsearchConnector };
