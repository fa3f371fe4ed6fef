import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Frame } from './frame/frame.tsx';
import { Home } from './frame/home.tsx';
import { contractListSearchOf, contractSearchOf, newContractSearchOf } from './pages/contracts/search.ts';
import { deliveriesSearchOf, newReplaySearchOf } from './pages/deliveries/search.ts';
import {
  destinationListSearchOf,
  destinationSearchOf,
  newDestinationSearchOf,
} from './pages/destinations/search.ts';
import { eventSearchOf, recentSearchOf } from './pages/events/search.ts';
import { keysSearchOf, writeKeySearchOf } from './pages/keys/search.ts';
import { liveSearchOf } from './pages/live/search.ts';
import { newWorkspaceSearchOf, organizationSearchOf, settingsSearchOf } from './pages/organization/search.ts';
import { overviewSearchOf } from './pages/overview/search.ts';
import { newRuleSearchOf, rulesSearchOf } from './pages/rules/search.ts';
import { systemSearchOf } from './pages/system/search.ts';
import {
  newTransformationSearchOf,
  transformationListSearchOf,
  transformationSearchOf,
} from './pages/transformations/search.ts';
import { EmptyState } from './shared/empty-state.tsx';
import { ErrorAlert } from './shared/error-alert.tsx';

/** The identity that a person looks up is personal data, so the page of profiles has no URL parameters. */
const nothingOf = () => ({});

/** Every page with its URL parameters. A page is loaded when it is first opened. */
const root = createRootRoute({
  component: Frame,
  notFoundComponent: () => <EmptyState title="There is no such page">Choose one in the menu.</EmptyState>,
  errorComponent: ({ error }) => <ErrorAlert error={error} retry={() => location.reload()} />,
});
const home = createRoute({ getParentRoute: () => root, path: '/', component: Home });
const workspace = createRoute({ getParentRoute: () => root, path: '/w/$workspaceId' });

const overview = createRoute({
  getParentRoute: () => workspace,
  path: '/overview',
  validateSearch: overviewSearchOf,
  component: lazyRouteComponent(() => import('./pages/overview/overview-page.tsx'), 'OverviewPage'),
});
const live = createRoute({
  getParentRoute: () => workspace,
  path: '/live',
  validateSearch: liveSearchOf,
  component: lazyRouteComponent(() => import('./pages/live/live-page.tsx'), 'LivePage'),
});
const events = createRoute({
  getParentRoute: () => workspace,
  path: '/events',
  validateSearch: recentSearchOf,
  component: lazyRouteComponent(() => import('./pages/events/event-search-page.tsx'), 'EventSearchPage'),
});
const event = createRoute({
  getParentRoute: () => workspace,
  path: '/events/$messageId',
  validateSearch: eventSearchOf,
  component: lazyRouteComponent(() => import('./pages/events/event-page.tsx'), 'EventPage'),
});
const keys = createRoute({
  getParentRoute: () => workspace,
  path: '/keys',
  validateSearch: keysSearchOf,
  component: lazyRouteComponent(() => import('./pages/keys/keys-page.tsx'), 'KeysPage'),
});
const writeKey = createRoute({
  getParentRoute: () => workspace,
  path: '/keys/$keyId',
  validateSearch: writeKeySearchOf,
  component: lazyRouteComponent(() => import('./pages/keys/write-key-page.tsx'), 'WriteKeyPage'),
});
const contracts = createRoute({
  getParentRoute: () => workspace,
  path: '/contracts',
  validateSearch: contractListSearchOf,
  component: lazyRouteComponent(() => import('./pages/contracts/contracts-page.tsx'), 'ContractsPage'),
});
const newContract = createRoute({
  getParentRoute: () => workspace,
  path: '/contracts/new',
  validateSearch: newContractSearchOf,
  component: lazyRouteComponent(() => import('./pages/contracts/new-contract-page.tsx'), 'NewContractPage'),
});
const contract = createRoute({
  getParentRoute: () => workspace,
  path: '/contracts/$contractId',
  validateSearch: contractSearchOf,
  component: lazyRouteComponent(() => import('./pages/contracts/contract-page.tsx'), 'ContractPage'),
});
const transformations = createRoute({
  getParentRoute: () => workspace,
  path: '/transformations',
  validateSearch: transformationListSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/transformations/transformations-page.tsx'),
    'TransformationsPage',
  ),
});
const newTransformation = createRoute({
  getParentRoute: () => workspace,
  path: '/transformations/new',
  validateSearch: newTransformationSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/transformations/new-transformation-page.tsx'),
    'NewTransformationPage',
  ),
});
const transformation = createRoute({
  getParentRoute: () => workspace,
  path: '/transformations/$transformationId',
  validateSearch: transformationSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/transformations/transformation-page.tsx'),
    'TransformationPage',
  ),
});
const destinations = createRoute({
  getParentRoute: () => workspace,
  path: '/destinations',
  validateSearch: destinationListSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/destinations/destinations-page.tsx'),
    'DestinationsPage',
  ),
});
const newDestination = createRoute({
  getParentRoute: () => workspace,
  path: '/destinations/new',
  validateSearch: newDestinationSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/destinations/new-destination-page.tsx'),
    'NewDestinationPage',
  ),
});
const destination = createRoute({
  getParentRoute: () => workspace,
  path: '/destinations/$destinationId',
  validateSearch: destinationSearchOf,
  component: lazyRouteComponent(() => import('./pages/destinations/destination-page.tsx'), 'DestinationPage'),
});
const rules = createRoute({
  getParentRoute: () => workspace,
  path: '/rules',
  validateSearch: rulesSearchOf,
  component: lazyRouteComponent(() => import('./pages/rules/rules-page.tsx'), 'RulesPage'),
});
const newRule = createRoute({
  getParentRoute: () => workspace,
  path: '/rules/new',
  validateSearch: newRuleSearchOf,
  component: lazyRouteComponent(() => import('./pages/rules/new-rule-page.tsx'), 'NewRulePage'),
});
const rule = createRoute({
  getParentRoute: () => workspace,
  path: '/rules/$ruleId',
  component: lazyRouteComponent(() => import('./pages/rules/rule-page.tsx'), 'RulePage'),
});
const deliveries = createRoute({
  getParentRoute: () => workspace,
  path: '/deliveries',
  validateSearch: deliveriesSearchOf,
  component: lazyRouteComponent(() => import('./pages/deliveries/deliveries-page.tsx'), 'DeliveriesPage'),
});
const delivery = createRoute({
  getParentRoute: () => workspace,
  path: '/deliveries/$deliveryId',
  component: lazyRouteComponent(() => import('./pages/deliveries/delivery-page.tsx'), 'DeliveryPage'),
});
const newReplay = createRoute({
  getParentRoute: () => workspace,
  path: '/replays/new',
  validateSearch: newReplaySearchOf,
  component: lazyRouteComponent(
    () => import('./pages/deliveries/replays/new-replay-page.tsx'),
    'NewReplayPage',
  ),
});
const profiles = createRoute({
  getParentRoute: () => workspace,
  path: '/profiles',
  validateSearch: nothingOf,
  component: lazyRouteComponent(() => import('./pages/profiles/profiles-page.tsx'), 'ProfilesPage'),
});
const workspaceSettings = createRoute({
  getParentRoute: () => workspace,
  path: '/settings',
  validateSearch: settingsSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/organization/workspace-settings-page.tsx'),
    'WorkspaceSettingsPage',
  ),
});
const newWorkspace = createRoute({
  getParentRoute: () => root,
  path: '/workspaces/new',
  validateSearch: newWorkspaceSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/organization/new-workspace-page.tsx'),
    'NewWorkspacePage',
  ),
});
const organization = createRoute({
  getParentRoute: () => root,
  path: '/organizations/$organizationId',
  validateSearch: organizationSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/organization/organization-page.tsx'),
    'OrganizationPage',
  ),
});
const system = createRoute({
  getParentRoute: () => root,
  path: '/system',
  validateSearch: systemSearchOf,
  component: lazyRouteComponent(() => import('./pages/system/system-page.tsx'), 'SystemPage'),
});

const routeTree = root.addChildren([
  home,
  workspace.addChildren([
    overview,
    live,
    events,
    event,
    keys,
    writeKey,
    contracts,
    newContract,
    contract,
    transformations,
    newTransformation,
    transformation,
    destinations,
    newDestination,
    destination,
    rules,
    newRule,
    rule,
    deliveries,
    delivery,
    newReplay,
    profiles,
    workspaceSettings,
  ]),
  newWorkspace,
  organization,
  system,
]);

export const router = createRouter({ routeTree, basepath: '/console', defaultPreload: 'intent' });

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
