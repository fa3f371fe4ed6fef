import type { ConnectorKind } from '../kind.ts';
import { createS3Connector } from './connector.ts';
import { description } from './description.ts';

export const s3: ConnectorKind = { description, create: createS3Connector };
