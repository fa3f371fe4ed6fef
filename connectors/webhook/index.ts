import type { ConnectorKind } from '../kind.ts';
import { createWebhookConnector } from './connector.ts';
import { description } from './description.ts';

export const webhook: ConnectorKind = { description, create: createWebhookConnector };
