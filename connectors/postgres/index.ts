import type { ConnectorKind } from '../kind.ts';
import { createPostgresConnector } from './connector.ts';
import { description } from './description.ts';

export const postgres: ConnectorKind = { description, create: createPostgresConnector };
