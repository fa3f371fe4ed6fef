/** Types, ports and pure decisions; see README.md. No I/O, no clock, no environment. */

export * from './access/credentials.ts';
export * from './access/permissions.ts';
export * from './access/roles.ts';
export * from './alerts/alert.ts';
export { dryRunAlert } from './alerts/dry-run.ts';
export { type DueChange, evaluateAlert, evaluateWatch } from './alerts/evaluate.ts';
export {
  isAboutDeliveries,
  type ReadFunnel,
  readAlertSeries,
  readPastSeries,
} from './alerts/funnel-series.ts';
export { isTimeZone, type QuietHours, WEEKDAYS } from './alerts/local-time.ts';
export type { AlertSeries } from './alerts/series.ts';
export {
  AUDIT_ACTOR_TYPES,
  AUDITED_TYPES,
  type AuditEntry,
  applyWithAudit,
} from './catalog/audit-log.ts';
export * from './catalog/audited-calls.ts';
export * from './catalog/catalog.ts';
export * from './catalog/conflict-causes.ts';
export * from './catalog/entities.ts';
export * from './catalog/facts.ts';
export {
  type Created,
  CreationOrder,
  type ListField,
  type Listing,
  type ListOrder,
  type ListPosition,
  listPositionOf,
} from './catalog/fold/creation-order.ts';
export { applyFact, FOLD_VERSION, UnknownFact } from './catalog/fold/fold.ts';
export { type KeyCreator, keysCreatedBy } from './catalog/fold/member-facts.ts';
export type { Member, MembersView } from './catalog/fold/members.ts';
export * from './catalog/fold/state.ts';
export type { TransformationVersion } from './catalog/fold/transformation-versions.ts';
export * from './catalog/rewrite.ts';
export * from './catalog/rows.ts';
export * from './contracts/contract.ts';
export { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH } from './contracts/definition/definition.ts';
export * from './contracts/dry-run.ts';
export { checkSchema, checkSchemaInSteps } from './contracts/evaluation/compile-schema.ts';
export * from './contracts/evaluator.ts';
export * from './contracts/infer/infer-contract.ts';
export { below, deeperThan } from './contracts/json-values.ts';
export * from './contracts/plan/plan-changes.ts';
export { type ComparedEvent, PlanComparison, type SeenState } from './contracts/plan/plan-comparison.ts';
export * from './contracts/plan/plan-forms.ts';
export {
  hasLabel,
  type ImportedContract,
  type PlanContract,
  type PlanRemark,
  type TrackingPlan,
  trackingPlanOf,
} from './contracts/plan/tracking-plan.ts';
export { type FieldModel, type TypeModel, typeModelOf } from './contracts/plan/type-model.ts';
export * from './contracts/violation.ts';
export * from './delivery/connection.ts';
export * from './delivery/connector.ts';
export * from './delivery/delivery.ts';
export * from './delivery/destination-health.ts';
export * from './delivery/replay.ts';
export * from './delivery/retry-schedule.ts';
export * from './delivery/stored-delivery.ts';
export * from './delivery/subscriptions.ts';
export * from './delivery/vendor-calls.ts';
export * from './event/event.ts';
export * from './event/event-trace.ts';
export {
  asWritten,
  expectedEvent,
  type Transformed,
  type TransformedEvents,
  type TrialEvent,
  transformedFrom,
  trialEvent,
} from './event/transformed-events.ts';
export * from './funnel/bytes.ts';
export * from './funnel/counts.ts';
export * from './funnel/documents.ts';
export * from './funnel/notes.ts';
export * from './funnel/reading.ts';
export * from './limits/disk-level.ts';
export * from './limits/fair-budget.ts';
export * from './limits/quotas.ts';
export * from './limits/rate-limiter.ts';
export * from './limits/storage-budget.ts';
export * from './limits/thread-turns.ts';
export * from './limits/turn-queue.ts';
export * from './log/clocks.ts';
export * from './log/dead-letter.ts';
export * from './log/event-log.ts';
export * from './log/layout.ts';
export * from './log/public-schemas.ts';
export * from './log/record-layout.ts';
export * from './log/stage.ts';
export * from './log/stage-load.ts';
export * from './log/topics.ts';
export * from './notices/addresses.ts';
export * from './notices/confirmation-token.ts';
export {
  alertMail,
  confirmationMail,
  deletionMail,
  destinationMail,
  digestMail,
  type Mail,
  type Mailer,
  type MailSendResult,
} from './notices/mail.ts';
export * from './notices/notices.ts';
export * from './ports/counters.ts';
export * from './ports/deduplicator.ts';
export * from './ports/history.ts';
export * from './ports/live-tail.ts';
export * from './ports/logger.ts';
export * from './ports/observability.ts';
export * from './ports/process-board.ts';
export * from './ports/sandbox.ts';
export * from './ports/store-mark.ts';
export * from './ports/tracing.ts';
export * from './ports/warehouse.ts';
export * from './primitives/index.ts';
export * from './profiles/event-write.ts';
export * from './profiles/identity/identity.ts';
export {
  DEFAULT_LIMITS,
  type IdentityLimits,
  isStrongType,
} from './profiles/identity/identity-limits.ts';
export { isPhoneCountry } from './profiles/identity/phone-number.ts';
export * from './profiles/identity/profile-settings.ts';
export { competingClaimWrite, isRef, isSetAside } from './profiles/links.ts';
export { changeOf, deletionOf, distinctIdentities, freshProfile, withNextVersion } from './profiles/merge.ts';
export * from './profiles/profile.ts';
export {
  type Charged,
  chargeOf,
  DEFAULT_PROFILE_BOUNDS,
  MAX_PROFILE_BOUNDS,
  type ProfileBounds,
  type ProfileExcess,
} from './profiles/profile-bounds.ts';
export * from './profiles/profile-operation.ts';
export * from './profiles/profile-store.ts';
export * from './profiles/record.ts';
export {
  attributeOf,
  attributeTree,
  isTimedValue,
  NULL_HANDLINGS,
  type NullHandling,
  visibleAttributes,
} from './profiles/registers.ts';
export {
  type AppliedSplit,
  applySplit,
  decideUnlink,
  type SplitCause,
  type SplitProfile,
  type TakenPart,
} from './profiles/unlink-split.ts';
export * from './profiles/write.ts';
export * from './rules/filter.ts';
export { FilterBudget, MAX_FILTER_WORK, MS_PER_FILTER_WORK } from './rules/filter-evaluator.ts';
export { integrationFor, mayExclude } from './rules/integrations.ts';
export * from './rules/match.ts';
export * from './security/confinement.ts';
export * from './security/scram.ts';
export * from './security/secrets.ts';
export * from './warehouse/contract-types.ts';
export {
  type ContractTypes,
  DISCARDS as DISCARDS_TABLE,
  type Drift,
  IDENTITY_MAP as IDENTITY_MAP_TABLE,
  nameOf as warehouseName,
  type SchemaColumn,
  type SchemaLedger,
  type TableSchema,
  UNMAPPED as UNMAPPED_COLUMN,
  USERS as USERS_TABLE,
} from './warehouse/layout.ts';
export { LoadDraft } from './warehouse/load-draft.ts';
export {
  type LoadPlan,
  type PlanningSteps,
  type PlanOptions,
  planSteps,
} from './warehouse/load-plan.ts';
export * from './warehouse/loads.ts';
export { join as joinColumnTypes } from './warehouse/types.ts';
