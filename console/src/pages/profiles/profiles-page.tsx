import { Page } from '../../shared/page.tsx';

export function ProfilesPage() {
  return <Page title="Profiles">{null}</Page>;
}
