import type { ConnectorKind } from '../kind.ts';
import { createRedisConnector } from './connector.ts';
import { description } from './description.ts';

export const redis: ConnectorKind = { description, create: createRedisConnector };
