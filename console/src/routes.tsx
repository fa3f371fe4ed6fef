import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Frame } from './frame/frame.tsx';
import { Home } from './frame/home.tsx';
import { EmptyState } from './shared/empty-state.tsx';
import { ErrorAlert } from './shared/error-alert.tsx';
import { listSearchOf } from './shared/paged-list.tsx';

/** Every page, with what its URL may say. A page is loaded when it is first opened. */
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
  component: lazyRouteComponent(() => import('./pages/overview/overview-page.tsx'), 'OverviewPage'),
});
const live = createRoute({
  getParentRoute: () => workspace,
  path: '/live',
  component: lazyRouteComponent(() => import('./pages/live/live-page.tsx'), 'LivePage'),
});
const events = createRoute({
  getParentRoute: () => workspace,
  path: '/events',
  component: lazyRouteComponent(() => import('./pages/events/event-search-page.tsx'), 'EventSearchPage'),
});
const keys = createRoute({
  getParentRoute: () => workspace,
  path: '/keys',
  validateSearch: listSearchOf,
  component: lazyRouteComponent(() => import('./pages/keys/keys-page.tsx'), 'KeysPage'),
});
const contracts = createRoute({
  getParentRoute: () => workspace,
  path: '/contracts',
  validateSearch: listSearchOf,
  component: lazyRouteComponent(() => import('./pages/contracts/contracts-page.tsx'), 'ContractsPage'),
});
const transformations = createRoute({
  getParentRoute: () => workspace,
  path: '/transformations',
  validateSearch: listSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/transformations/transformations-page.tsx'),
    'TransformationsPage',
  ),
});
const destinations = createRoute({
  getParentRoute: () => workspace,
  path: '/destinations',
  validateSearch: listSearchOf,
  component: lazyRouteComponent(
    () => import('./pages/destinations/destinations-page.tsx'),
    'DestinationsPage',
  ),
});
const rules = createRoute({
  getParentRoute: () => workspace,
  path: '/rules',
  validateSearch: listSearchOf,
  component: lazyRouteComponent(() => import('./pages/rules/rules-page.tsx'), 'RulesPage'),
});
const deliveries = createRoute({
  getParentRoute: () => workspace,
  path: '/deliveries',
  component: lazyRouteComponent(() => import('./pages/deliveries/deliveries-page.tsx'), 'DeliveriesPage'),
});
const profiles = createRoute({
  getParentRoute: () => workspace,
  path: '/profiles',
  component: lazyRouteComponent(() => import('./pages/profiles/profiles-page.tsx'), 'ProfilesPage'),
});
const newWorkspace = createRoute({
  getParentRoute: () => root,
  path: '/workspaces/new',
  component: lazyRouteComponent(
    () => import('./pages/organization/new-workspace-page.tsx'),
    'NewWorkspacePage',
  ),
});
const organization = createRoute({
  getParentRoute: () => root,
  path: '/organizations/$organizationId',
  component: lazyRouteComponent(
    () => import('./pages/organization/organization-page.tsx'),
    'OrganizationPage',
  ),
});
const system = createRoute({
  getParentRoute: () => root,
  path: '/system',
  component: lazyRouteComponent(() => import('./pages/system/system-page.tsx'), 'SystemPage'),
});

const routeTree = root.addChildren([
  home,
  workspace.addChildren([
    overview,
    live,
    events,
    keys,
    contracts,
    transformations,
    destinations,
    rules,
    deliveries,
    profiles,
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
