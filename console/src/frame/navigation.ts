import {
  ActivityLogIcon,
  CodeIcon,
  DashboardIcon,
  ExitIcon,
  FileTextIcon,
  GearIcon,
  HomeIcon,
  LightningBoltIcon,
  MagnifyingGlassIcon,
  MixIcon,
  PaperPlaneIcon,
  PersonIcon,
  TokensIcon,
} from '@radix-ui/react-icons';

/** The pages of a workspace in the order of the menu: sources of events, their processing, their destinations. */
export const WORKSPACE_PAGES = [
  { title: 'Overview', path: '/w/$workspaceId/overview', icon: DashboardIcon },
  { title: 'Live', path: '/w/$workspaceId/live', icon: LightningBoltIcon },
  { title: 'Event search', path: '/w/$workspaceId/events', icon: MagnifyingGlassIcon },
  { title: 'Sources and keys', path: '/w/$workspaceId/keys', icon: TokensIcon },
  { title: 'Contracts', path: '/w/$workspaceId/contracts', icon: FileTextIcon },
  { title: 'Transformations', path: '/w/$workspaceId/transformations', icon: CodeIcon },
  { title: 'Destinations', path: '/w/$workspaceId/destinations', icon: ExitIcon },
  { title: 'Rules', path: '/w/$workspaceId/rules', icon: MixIcon },
  { title: 'Deliveries', path: '/w/$workspaceId/deliveries', icon: PaperPlaneIcon },
  { title: 'Profiles', path: '/w/$workspaceId/profiles', icon: PersonIcon },
  { title: 'Workspace settings', path: '/w/$workspaceId/settings', icon: GearIcon },
] as const;

export const ORGANIZATION_PAGE = {
  title: 'Organization',
  path: '/organizations/$organizationId',
  icon: HomeIcon,
} as const;
export const SYSTEM_PAGE = { title: 'System', path: '/system', icon: ActivityLogIcon } as const;
