import { iso, messageOf, newId, type ProfileOperation, type ProfileOperationOutcome } from '@tributary/core';
import type { FastifyRequest } from 'fastify';
import { authorOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';

/** What the caller of an operation asked for. */
type Asked = Pick<ProfileOperation, 'name' | 'organization_id' | 'regions' | 'identity_types' | 'requested'>;

type Result = Omit<ProfileOperationOutcome, 'complete'>;

/**
 * The two records of an operation on profiles, for the audit log: one before anything is changed and one after. An
 * operation whose process died between them is listed as begun.
 */
export interface OperationRecord {
  /** `Unavailable` where the record is not confirmed: nothing may be changed then. */
  begin(): Promise<void>;
  /** `Unavailable` where the record is not confirmed: what was done stays done. */
  end(result: Result): Promise<void>;
  /** For an operation whose caller gets an error anyway: a record that fails is logged. */
  endInPart(result: Result): Promise<void>;
}

export function recordOperation(
  request: FastifyRequest,
  {
    recordProfileOperation: record,
    clock,
    logger,
  }: Pick<GatewayDependencies, 'recordProfileOperation' | 'clock' | 'logger'>,
  asked: Asked,
): OperationRecord {
  const operation: ProfileOperation = {
    ...asked,
    id: newId(),
    at: iso(clock()),
    by: authorOf(request.caller),
    from: { address: request.clientAddress.text, request_id: request.id },
  };
  return {
    begin: () => record(operation),
    end: (result) => record({ ...operation, outcome: { ...result, complete: true } }),
    async endInPart(result) {
      try {
        await record({ ...operation, outcome: { ...result, complete: false } });
      } catch (error) {
        logger.warn(
          { operation: operation.id, request_id: request.id, error: messageOf(error) },
          'the end of an operation on profiles is not recorded; the audit log lists it as begun',
        );
      }
    },
  };
}
