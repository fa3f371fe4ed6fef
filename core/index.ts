/** The words and ports of Tributary, and its pure decisions. No I/O, no clock, no environment. */

export * from './access/describe-permission.ts';
export * from './access/email.ts';
export * from './access/permissions.ts';
export * from './access/profile-scopes.ts';
export * from './access/roles.ts';
export * from './access/signature-algorithms.ts';
export * from './audit/apply-audited.ts';
export * from './audit/audit-entry.ts';
export { AUDITED_TYPES } from './audit/audited.ts';
export { AUDIT_MASK, MAX_AUDITED_BYTES } from './audit/masked.ts';
export * from './catalog/catalog.ts';
export * from './catalog/conflict-causes.ts';
export type { CountedListing, Created, Listing } from './catalog/creation-order.ts';
export { CreationOrder } from './catalog/creation-order.ts';
export * from './catalog/entities.ts';
export * from './catalog/facts.ts';
export * from './catalog/fold.ts';
export { type KeyMaker, keysMadeBy } from './catalog/member-keys.ts';
export type { Member, MembersView } from './catalog/members.ts';
export * from './catalog/restore.ts';
export * from './catalog/rewrite.ts';
export * from './catalog/rows.ts';
export * from './catalog/state.ts';
export {
  MAX_TRANSFORMATION_VERSIONS,
  type TransformationVersion,
  type TransformationVersionsView,
} from './catalog/transformation-versions.ts';
export * from './confinement/child-user.ts';
export * from './confinement/confined-command.ts';
export * from './connector/connector.ts';
export * from './connector/secret-exposure.ts';
export * from './contracts/contract.ts';
export { MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH } from './contracts/definition/definition.ts';
export * from './contracts/dry-run.ts';
export { checkSchema } from './contracts/evaluation/compile-schema.ts';
export * from './contracts/evaluator.ts';
export {
  ContractInference,
  type InferenceThresholds,
  type InferredContract,
  type InferredField,
  MAX_ENUM,
  type ProposedContract,
} from './contracts/infer/infer-contract.ts';
export { below, deeperThan } from './contracts/json-values.ts';
export * from './contracts/violation.ts';
export * from './dedupe/deduplicator.ts';
export * from './delivery/delivery.ts';
export * from './delivery/destination-notice.ts';
export * from './delivery/health.ts';
export * from './delivery/health-change.ts';
export * from './delivery/outcome-entry.ts';
export * from './delivery/retry-schedule.ts';
export * from './delivery/stored-delivery.ts';
export * from './errors/errors.ts';
export * from './event/event.ts';
export * from './event-trace/event-trace.ts';
export * from './history/history.ts';
export * from './ids/ids.ts';
export * from './ids/key.ts';
export * from './installation/store-mark.ts';
export * from './json/exact-numbers.ts';
export * from './json/parse-object.ts';
export * from './limits/fair-budget.ts';
export * from './limits/rate-limiter.ts';
export * from './limits/token-buckets.ts';
export * from './live/live-tail.ts';
export * from './log/event-log.ts';
export * from './log/headers.ts';
export * from './log/layout-mismatch.ts';
export * from './log/packing.ts';
export * from './log/partitioner.ts';
export * from './log/poison.ts';
export * from './log/position.ts';
export * from './log/promised.ts';
export * from './log/public-schemas.ts';
export * from './log/stage.ts';
export * from './log/topics.ts';
export * from './log/value-framing.ts';
export * from './mail/deletion-mail.ts';
export * from './mail/destination-mail.ts';
export * from './mail/mail-queue.ts';
export * from './mail/mailer.ts';
export * from './observability/logger.ts';
export * from './observability/metric-catalogue.ts';
export * from './observability/metrics.ts';
export * from './profiles/apply-write.ts';
export {
  attributeOf,
  attributeTree,
  NULL_MEANINGS,
  type NullMeaning,
  visibleAttributes,
} from './profiles/attributes.ts';
export * from './profiles/blocked-identities.ts';
export * from './profiles/changes.ts';
export * from './profiles/combined-writes.ts';
export * from './profiles/deletion-notice.ts';
export * from './profiles/event-write.ts';
export { fold, freshProfile } from './profiles/fold.ts';
export { distinctIdentities } from './profiles/identities.ts';
export * from './profiles/identity.ts';
export {
  DEFAULT_LIMITS,
  type IdentityLimits,
  isStrongType,
  STRONG_ROOM,
  type TypeLimit,
} from './profiles/identity-limits.ts';
export * from './profiles/linking.ts';
export { isPhoneCountry } from './profiles/phone-number.ts';
export { isPlaceholder } from './profiles/placeholders.ts';
export * from './profiles/profile.ts';
export * from './profiles/profile-operation.ts';
export * from './profiles/profile-settings.ts';
export * from './profiles/profile-store.ts';
export * from './profiles/publish-changes.ts';
export * from './profiles/record.ts';
export * from './profiles/retention.ts';
export { claimWrite, isSetAside } from './profiles/shared-identities.ts';
export { type AppliedSplit, applySplit, type SplitProfile } from './profiles/split.ts';
export { applyUnlink, unlinkingOf } from './profiles/unlink.ts';
export * from './quotas/quota-uses.ts';
export * from './quotas/quotas.ts';
export * from './replay/replay-step.ts';
export { type FilterVerdict, faultOfFilter, filterVerdict, MAX_FILTER_LENGTH } from './rules/filter.ts';
export { FilterBudget, MAX_FILTER_WORK } from './rules/filter-evaluator.ts';
export * from './rules/match.ts';
export * from './rules/stopped.ts';
export * from './sandbox/sandbox.ts';
export * from './sandbox/transformation-input.ts';
export * from './sasl/scram.ts';
export * from './secrets/key-ring.ts';
export * from './secrets/seal.ts';
export * from './time/backoff.ts';
export * from './time/canonical-time.ts';
export * from './time/clock.ts';
export * from './time/held-thread.ts';
export * from './volume/run-tally.ts';
export * from './volume/volume-counters.ts';
