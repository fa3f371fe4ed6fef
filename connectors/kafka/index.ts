import type { ConnectorKind } from '../kind.ts';
import { createKafkaConnector } from './connector.ts';
import { description } from './description.ts';

export const kafka: ConnectorKind = { description, create: createKafkaConnector };
