import {
  type Charged,
  type ClientKeyScope,
  type IdentityReading,
  identityReadingOf,
  iso,
  messageOf,
  newId,
  type Organization,
  type ProfileOperation,
  type ProfileOperationOutcome,
  TributaryError,
} from '@tributary/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { authorOf } from '../../authentication/caller.ts';
import type { GatewayDependencies } from '../../dependencies.ts';
import { unavailable } from '../../errors/api-error.ts';
import { UnconfirmedBytes } from '../../limits/memory-budgets.ts';
import { refuseProfilesOverBudget } from '../../limits/storage-budgets.ts';
import { type Admission, admit, type NamedRegion } from './admission.ts';
import { ProfileCharges } from './charges.ts';

/** A request of the profile API, whose body names the organization. */
type ProfileRequest = FastifyRequest & { readonly body: { readonly orgId: number } };

/** An operation on existing profiles, for the audit log. */
export interface AuditedOperation<Outcome> {
  /** The first record: the operation as requested. */
  readonly requested: Pick<
    ProfileOperation,
    'name' | 'organization_id' | 'regions' | 'identity_types' | 'requested'
  >;
  run(): Promise<Outcome>;
  /** The second record: the result. */
  resultOf(outcome: Outcome): Omit<ProfileOperationOutcome, 'complete'>;
  /** The outcome of a run that failed after it had changed some profiles; undefined when it has changed none. */
  partialOutcome?(error: unknown): Outcome | undefined;
  /** Fields of the 503 when profiles were changed but the operation did not complete, or was not recorded. */
  answerOf?(outcome: Outcome): Readonly<Record<string, unknown>>;
}

/** The options of the plugins that register one call of the profile API each. */
export interface ProfileCallOptions {
  readonly calls: ProfileCalls;
}

/** The steps that the calls of the profile API share. */
export class ProfileCalls {
  readonly dependencies: GatewayDependencies;
  readonly charges: ProfileCharges;
  readonly #unconfirmed = new UnconfirmedBytes();

  constructor(dependencies: GatewayDependencies) {
    this.dependencies = dependencies;
    this.charges = new ProfileCharges(dependencies.largeProfileRate);
  }

  /** How the identities of a body are read, before it is known whether the caller is admitted. */
  readingFor({ orgId }: ProfileRequest['body']): IdentityReading {
    const { state } = this.dependencies.catalog;
    return identityReadingOf(state.organizationByOrgId(orgId)?.profile_settings);
  }

  /** Errors: see `admit`; 429 for a write of an organization that is over a budget. */
  admit(request: ProfileRequest, scope: ClientKeyScope, regions: readonly NamedRegion[]): Admission {
    const access = { scope, orgId: request.body.orgId, regions };
    const admission = admit(request.caller, request.callHeaders, access, this.dependencies.catalog.state);
    if (scope === 'profile.write') refuseProfilesOverBudget(this.dependencies, admission.organization.org_id);
    return admission;
  }

  /**
   * Runs a write while its bytes count against the organization's share, and charges it. `Overloaded` when the share is used
   * up, 429 see `ProfileCharges`.
   */
  async bounded<T extends Charged>(
    request: FastifyRequest,
    reply: FastifyReply,
    organization: Organization,
    write: () => Promise<T>,
  ): Promise<T> {
    const permit = this.#unconfirmed.take([organization.id], request.bodyBytes);
    try {
      const outcome = await this.charges.run(organization, reply, write);
      this.charges.charge(organization, outcome);
      return outcome;
    } finally {
      permit.release();
    }
  }

  /**
   * Runs an operation between its two audit records. The audit log lists an operation as begun when the process died
   * before the second record.
   *
   * Errors: `Unavailable` when the first record is not confirmed, and then nothing is changed; 503 with the fields of
   * `answerOf` when profiles were changed but not all of them, or the second record is not confirmed.
   */
  async audited<Outcome>(request: FastifyRequest, operation: AuditedOperation<Outcome>): Promise<Outcome> {
    const { recordProfileOperation: record, clock } = this.dependencies;
    const begun: ProfileOperation = {
      ...operation.requested,
      id: newId(),
      at: iso(clock()),
      by: authorOf(request.caller),
      from: { address: request.clientAddress.text, request_id: request.id },
    };
    await record(begun);
    const outcome = await operation.run().catch(async (error: unknown) => {
      const partial = operation.partialOutcome?.(error);
      if (partial === undefined) throw error;
      await this.#recordPartial(request, {
        ...begun,
        outcome: { ...operation.resultOf(partial), complete: false },
      });
      throw unavailable(operation.answerOf?.(partial), error);
    });
    await record({ ...begun, outcome: { ...operation.resultOf(outcome), complete: true } }).catch(
      (error: unknown) => {
        const isRetryable = error instanceof TributaryError && error.retryable;
        throw isRetryable && operation.answerOf !== undefined
          ? unavailable(operation.answerOf(outcome), error)
          : error;
      },
    );
    return outcome;
  }

  /** The caller gets an error anyway, so a record that fails is only logged. */
  async #recordPartial(request: FastifyRequest, operation: ProfileOperation): Promise<void> {
    const { recordProfileOperation: record, logger } = this.dependencies;
    try {
      await record(operation);
    } catch (error) {
      logger.warn(
        { operation: operation.id, request_id: request.id, error: messageOf(error) },
        'the end of an operation on profiles is not recorded; the audit log lists it as begun',
      );
    }
  }
}
