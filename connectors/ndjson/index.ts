import type { ConnectorKind } from '../kind.ts';
import { createNdjsonConnector } from './connector.ts';
import { description } from './description.ts';

export const ndjson: ConnectorKind = { description, create: createNdjsonConnector };
